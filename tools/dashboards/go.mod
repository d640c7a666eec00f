module github.com/teescope/teescope/tools/dashboards

go 1.26.0

toolchain go1.26.8

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
