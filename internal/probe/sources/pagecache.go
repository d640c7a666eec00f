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
	Open: openProgram(bpf.PageCache, func(c *counters, emit emitter) uint64 {
		c.PageCache(func(operation int, pages uint64) {
			emit.send(pageCachePages, float64(pages), c.label(bpf.Operations[operation])...)
		})
		return 0
	}),
}
