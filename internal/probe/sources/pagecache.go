package sources

import (
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

var pageCachePages = counter("tee_page_cache_pages_total",
	"Pages added to the page cache, accessed by reads, dirtied, or dirtied through a buffer since the monitor started (tracepoints filemap:mm_filemap_add_to_page_cache and mm_filemap_get_pages, writeback:writeback_dirty_folio, block:block_dirty_buffer); a folio counts as its pages.",
	"operation")

var pageCache = probe.Source{
	Name:    "pagecache",
	Doc:     "Page-cache operations in pages, counted in the kernel",
	Metrics: []*metric.Desc{pageCachePages},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the programs", Open: true},
		{Capability: "cap_perfmon", For: "to load programs that read the kernel's structures", Open: true},
	},
	Kernels: "Linux 5.16 and later with CONFIG_DEBUG_INFO_BTF; before 6.12, which added filemap:mm_filemap_get_pages, access needs a probe on folio_mark_accessed and counts repeated accesses",
	Cost:    "per folio or buffer and per step of a read: see the table of event costs in docs/lab/performance.md",
	Blind:   "reads through memory maps, which need no lookup once a page is mapped; I/O that bypasses the cache (O_DIRECT, DAX, devices passed to enclaves or guests). The hit ratio, 1 - add / access, is valid only for buffered reads with few writes: `add` also counts pages from writes and read-ahead, which the kernel does not separate",
	Open: openProgram(bpf.PageCache, func(c *counters, emit emitter) uint64 {
		bpf.PageCacheCounts{Counters: c.Counters}.Pages(func(operation int, pages uint64) {
			emit.send(pageCachePages, float64(pages), c.label(bpf.Operations[operation])...)
		})
		return 0
	}),
}
