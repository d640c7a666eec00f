// Command dashboards writes the dashboards for Grafana, deploy/grafana/dashboards/*.json, from the one description of them in this folder.
// `make generate` runs it. The JSON is that of Grafana's own Go types (grafana-foundation-sdk), which Grafana generates from the schema
// of its dashboards.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// root is the repository, from this folder.
const root = "../.."

// all are the dashboards; each is described in a file of its name.
var all = []board{tee, containers, infrastructure, benchmarks}

func main() {
	if err := generate(filepath.Join(root, "deploy/grafana/dashboards")); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(4)
	}
}

// generate writes the dashboards into a folder.
func generate(folder string) error {
	help, err := readHelp(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, b := range all {
		text, err := b.encode(help)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, b.name+".json"), text, 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// encode returns the dashboard as JSON.
func (b board) encode(help map[string]string) ([]byte, error) {
	d, err := b.build(help)
	if err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", b.name, err)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", b.name, err)
	}
	// The types encode their parts themselves, as for HTML. Queries have these characters, and people read them here.
	for escaped, plain := range map[string]string{`\u003c`: "<", `\u003e`: ">", `\u0026`: "&"} {
		text = bytes.ReplaceAll(text, []byte(escaped), []byte(plain))
	}
	if err := validate(text); err != nil {
		return nil, fmt.Errorf("dashboard %s is not what Grafana's schema describes: %w", b.name, err)
	}
	return append(text, '\n'), nil
}
