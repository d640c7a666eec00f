module github.com/teescope/teescope/channel

go 1.26.0

toolchain go1.26.8

require github.com/flynn/noise v1.1.0

require (
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
