package result

import (
	"bytes"
	_ "embed"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:generate go test -count=1 -run ^TestSchemaFile$ . -update

// Schema is the JSON Schema (draft 2020-12) of the document, made from the
// types of this package.
//
//go:embed schema.json
var Schema []byte

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("result.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("result.json")
})
