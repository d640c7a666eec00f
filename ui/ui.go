// Package ui embeds the page's build. Without node the committed placeholder
// is embedded instead, so that building the binary never needs it.
package ui

import "embed"

// Files holds dist/: the built page, or the placeholder.
//
//go:embed all:dist
var Files embed.FS
