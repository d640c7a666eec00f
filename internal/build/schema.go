package build

import _ "embed"

//go:generate go test -count=1 -run ^TestSchema$ . -update

// Schema is the JSON Schema (draft 2020-12) of what `version --json` prints, made from the type Info.
//
//go:embed version.schema.json
var Schema []byte
