package bpf

// The user-space side of pagecache.bpf.c: what to load, where to attach it, and how to read its counters. It counts
// page-cache operations in pages.

//go:generate ./compile.sh pageCache pagecache.bpf.c

// Operations are the label values of page-cache operations, in the order of
// pagecache.bpf.c.
var Operations = [...]string{"add", "access", "dirty", "buffer_dirty"}

// PageCache counts page-cache operations in pages.
var PageCache = &Program{
	Name: "pagecache",
	spec: spec{
		load: loadPageCache,
		hooks: []hook{
			{name: Operations[0], variants: []variant{{"add_btf", typed}, {"add_raw", raw("mm_filemap_add_to_page_cache")}}},
			{name: Operations[1], variants: []variant{
				{"access_btf", typed},
				{"access_raw", raw("mm_filemap_get_pages")},
				// Before the tracepoint, in Linux 6.1: pages that were looked at again.
				{"access_fentry", typed},
				{"access_kprobe", kprobe("folio_mark_accessed")},
			}},
			{name: Operations[2], variants: []variant{{"dirty_btf", typed}, {"dirty_raw", raw("writeback_dirty_folio")}}},
			{name: Operations[3], variants: []variant{{"buffer_dirty_btf", typed}, {"buffer_dirty_raw", raw("block_dirty_buffer")}}},
		},
	},
	layout: layout{
		row:  8,
		read: []string{"counts"},
	},
}

// PageCacheCounts reads the counters of PageCache.
type PageCacheCounts struct{ *Counters }

// Pages emits the pages of each counted operation since the program was attached;
// operation is an index of Operations.
func (c PageCacheCounts) Pages(emit func(operation int, pages uint64)) {
	for i, name := range Operations {
		if c.has(name) {
			emit(i, c.counts().sum(i))
		}
	}
}
