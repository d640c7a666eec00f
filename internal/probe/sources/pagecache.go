package sources

import (
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

var pageCachePages = counter("tee_page_cache_pages_total",
	"Pages since the monitor started that were added to the page cache, accessed by reads, made dirty, or made dirty through a buffer (tracepoints filemap:mm_filemap_add_to_page_cache and mm_filemap_get_pages, writeback:writeback_dirty_folio, block:block_dirty_buffer); a folio counts as its pages.",
	"operation")

var pageCache = probe.Source{
	Name:    "pagecache",
	Doc:     "page-cache operations in pages, counted in the kernel",
	Metrics: []*metric.Desc{pageCachePages},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the programs", Open: true},
		{Capability: "cap_perfmon", For: "to load programs that read the kernel's structures", Open: true},
	},
	Kernels: "Linux 5.16 and later with CONFIG_DEBUG_INFO_BTF; before 6.12, which brought filemap:mm_filemap_get_pages, access needs a probe on folio_mark_accessed and counts pages that were looked at again",
	Cost:    "about 70 ns for each folio or buffer and for each step of a read, of which 20 in the program (kernel run-time statistics, Linux 6.18 in a VM)",
	Blind:   "reads through memory maps, which pass no lookup once a page is mapped, and I/O past the cache (O_DIRECT, DAX, devices given to enclaves or guests); so 1 - add / access is the hit ratio of buffered reads only, and only where little is written: pages that writing and reading ahead bring in are in add too, and no kernel interface tells them apart",
	Open: openProgram(bpf.PageCache, func(c *counters, emit emitter) uint64 {
		c.PageCache(func(operation int, pages uint64) {
			emit.send(pageCachePages, float64(pages), c.label(bpf.Operations[operation])...)
		})
		return 0
	}),
}
