package result

import (
	"reflect"

	"github.com/teescope/teescope/internal/printable"
)

// A document has no secrets: command lines, parameters and reasons may have had some. They are left out when a document is written, and
// when one is read that another program wrote. What has none is not copied.

// withoutSecrets returns a value with each of its texts as printable.Redact gives it, lists of texts as command lines, and members of maps
// by their names. The value itself stays as it is.
func withoutSecrets[value any](v value) value {
	out, _ := redacted(reflect.ValueOf(&v).Elem(), "")
	return out.Interface().(value) //nolint:errcheck,forcetypeassert // it has the type of its argument
}

// redacted is withoutSecrets of what has a name, and reports whether anything changed.
func redacted(v reflect.Value, name string) (out reflect.Value, changed bool) {
	set := func(where func(reflect.Value) reflect.Value, part reflect.Value) {
		if !changed {
			out, changed = reflect.New(v.Type()).Elem(), true
			out.Set(v)
			if v.Kind() == reflect.Slice {
				out.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
			}
		}
		where(out).Set(part)
	}
	out = v
	switch v.Kind() { //nolint:exhaustive // the others have no text
	case reflect.String:
		if text := printable.Named(name, v.String()); text != v.String() {
			set(func(x reflect.Value) reflect.Value { return x }, reflect.ValueOf(text).Convert(v.Type()))
		}
	case reflect.Pointer:
		if v.IsNil() {
			break
		}
		if part, ok := redacted(v.Elem(), name); ok {
			to := reflect.New(v.Type().Elem())
			to.Elem().Set(part)
			return to, true
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			if part, ok := redacted(v.Field(i), ""); ok {
				set(func(x reflect.Value) reflect.Value { return x.Field(i) }, part)
			}
		}
	case reflect.Slice:
		if words, ok := v.Interface().([]string); ok {
			for i, word := range printable.RedactWords(words) {
				if word != words[i] {
					set(func(x reflect.Value) reflect.Value { return x.Index(i) }, reflect.ValueOf(word))
				}
			}
			break
		}
		for i := range v.Len() {
			part, ok := redacted(v.Index(i), name)
			if ok {
				set(func(x reflect.Value) reflect.Value { return x.Index(i) }, part)
			} else if k := part.Kind(); k != reflect.Struct && k != reflect.Pointer && k != reflect.String && k != reflect.Slice && k != reflect.Map {
				break // numbers
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			part, ok := redacted(entries.Value(), entries.Key().String())
			if !ok {
				continue
			}
			if !changed {
				out, changed = reflect.MakeMapWithSize(v.Type(), v.Len()), true
				for all := v.MapRange(); all.Next(); {
					out.SetMapIndex(all.Key(), all.Value())
				}
			}
			out.SetMapIndex(entries.Key(), part)
		}
	}
	return out, changed
}
