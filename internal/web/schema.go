package web

import _ "embed"

//go:generate go test -count=1 -run ^TestFindingsSchema$ . -update

// FindingsSchema is the JSON Schema (draft 2020-12) of the answer of GET findings,
// made from the type Findings.
//
//go:embed findings.schema.json
var FindingsSchema []byte
