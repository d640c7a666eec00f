// Package store keeps what was measured: an embedded Prometheus with its time
// series database on disk, PromQL, scraping of further targets, recording
// rules and the HTTP API. It is the only package that imports Prometheus, so
// that an upgrade is a matter of one folder.
package store
