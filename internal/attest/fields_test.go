package attest

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	sevabi "github.com/google/go-sev-guest/abi"
	sevpb "github.com/google/go-sev-guest/proto/sevsnp"
	tdxpb "github.com/google/go-tdx-guest/proto/tdx"
	"github.com/google/go-tpm/tpm2"
)

// plainName leaves letters and digits in capitals: the page and the libraries join words in their own ways.
func plainName(name string) string {
	return strings.ToUpper(strings.NewReplacer("_", "", ".", "").Replace(name))
}

// fieldsOf are the names of a struct's fields, as a tag says them if there is one.
func fieldsOf(t reflect.Type, tag string) (out []string) {
	for n := range t.NumField() {
		f := t.Field(n)
		name := f.Name
		if tag != "" {
			if name = strings.Split(f.Tag.Get(tag), ",")[0]; name == "" {
				continue
			}
		}
		if tag == "protobuf" {
			name = f.Name
		}
		if f.Anonymous { // only how it is written
			continue
		}
		out = append(out, name)
	}
	return out
}

func under(group string, names []string) (out []string) {
	for _, n := range names {
		out = append(out, group+"."+n)
	}
	return out
}

// TestFieldsOnPage: docs/attested-results.md says of each field of each kind of evidence, and of each known bit, whether it is checked.
func TestFieldsOnPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/attested-results.md")
	if err != nil {
		t.Fatal(err)
	}
	var attributes []string
	for _, name := range attributeNames {
		attributes = append(attributes, name)
	}
	for section, fields := range map[string][]string{
		"SEV-SNP report": slices.Concat(fieldsOf(reflect.TypeFor[sevpb.Report](), "protobuf"), under("POLICY", fieldsOf(reflect.TypeFor[sevabi.SnpPolicy](), "")), under("PLATFORM_INFO", PlatformFacts())),
		"TDX quote": slices.Concat(fieldsOf(reflect.TypeFor[tdxpb.Header](), "protobuf"), fieldsOf(reflect.TypeFor[tdxpb.TDQuoteBody](), "protobuf"), under("QE", fieldsOf(reflect.TypeFor[tdxpb.EnclaveReport](), "protobuf")),
			under("TD_ATTRIBUTES", attributes)),
		"AWS Nitro document": fieldsOf(reflect.TypeFor[nitroDocument](), "cbor"),
		"TPM quote":          slices.Concat(fieldsOf(reflect.TypeFor[tpmQuote](), ""), fieldsOf(reflect.TypeFor[tpm2.TPMSAttest](), "")),
		"NVIDIA GPU report":  slices.Concat(fieldsOf(reflect.TypeFor[gpuReport](), ""), fieldsOf(reflect.TypeFor[GPU](), "json")),
	} {
		t.Run(section, func(t *testing.T) {
			_, text, found := strings.Cut(string(page), "\n### "+section+"\n")
			text, _, _ = strings.Cut(text, "\n##")
			rows := map[string]bool{}
			for line := range strings.Lines(text) {
				cells := strings.Split(line, "|")
				if len(cells) < 5 || !strings.Contains(cells[1], "`") {
					continue
				}
				if how := strings.TrimSpace(cells[2]); !slices.Contains([]string{"by default", "if named", "not checked"}, how) {
					t.Errorf("%s: a row says %q: %s", section, how, line)
				}
				for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
					if rows[plainName(m[1])] {
						t.Errorf("%s: %s has two rows", section, m[1])
					}
					rows[plainName(m[1])] = true
				}
			}
			for _, f := range fields {
				if !rows[plainName(f)] {
					t.Errorf("%s: the page has no row for %s", section, f)
				}
				delete(rows, plainName(f))
			}
			if len(rows) > 0 || len(fields) < 5 || !found {
				t.Errorf("%s: the page has rows of no field: %v", section, rows)
			}
		})
	}
}
