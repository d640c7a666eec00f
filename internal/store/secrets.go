package store

import (
	"bytes"
	"encoding/json"
	"net/http"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/printable"
)

// hidingSecrets leaves secrets out of the answers about configuration and targets. Prometheus masks its own fields for passwords, but
// not what stands in URLs, in their parameters, and in variables of the environment.
func hidingSecrets(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/status/config", "/targets", "/targets/relabel_steps":
		default:
			next.ServeHTTP(w, r)
			return
		}
		whole := &keptAnswer{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(whole, r)
		var answer any
		d := json.NewDecoder(&whole.body)
		d.UseNumber()
		shown := []byte(printable.Redact(whole.body.String()))
		if d.Decode(&answer) == nil {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if e.Encode(withoutSecrets(answer, "")) == nil {
				shown = b.Bytes()
			}
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(whole.status)
		_, _ = w.Write(shown) // the client has left
	})
}

// keptAnswer keeps an answer.
type keptAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (k *keptAnswer) WriteHeader(status int) { k.status = status }

func (k *keptAnswer) Write(b []byte) (int, error) { return k.body.Write(b) }

// withoutSecrets returns a decoded value without its secrets; name is that of the member that has it.
func withoutSecrets(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = withoutSecrets(v[k], k)
		}
	case []any:
		for i := range v {
			v[i] = withoutSecrets(v[i], name)
		}
	case string:
		if name == "yaml" {
			return configWithoutSecrets(v)
		}
		return printable.Named(name, v)
	}
	return v
}

// configWithoutSecrets returns a configuration in YAML without its secrets.
func configWithoutSecrets(text string) string {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) == 0 {
		return printable.Redact(text)
	}
	hideInNode(&doc, "")
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return printable.Redact(text)
	}
	return b.String()
}

// hideInNode redacts the texts of a node that has a name. The names in params are those of a URL's parameters.
func hideInNode(n *yaml.Node, name string) {
	switch n.Kind {
	case yaml.ScalarNode:
		n.Value = printable.Named(name, n.Value)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if name == "params" {
				key = "__param_" + key
			}
			hideInNode(n.Content[i+1], key)
		}
	default:
		for _, c := range n.Content {
			hideInNode(c, name)
		}
	}
}
