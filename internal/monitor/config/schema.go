package config

import _ "embed"

//go:generate go test -count=1 -run ^TestConfigSchema$ . -update

// Schema is the JSON Schema (draft 2020-12) of the file of --config, made from the type config.
//
//go:embed config.schema.json
var Schema []byte
