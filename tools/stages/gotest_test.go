package main

import (
	"go/parser"
	"go/token"
	"testing"
)

func TestStartsGoroutines(t *testing.T) {
	for body, want := range map[string]bool{
		"go f()":                             true,
		"var wg sync.WaitGroup; wg.Go(f)":    true,
		"t.Parallel(); time.AfterFunc(1, f)": false,
		`_ = "go f()"`:                       false,
	} {
		t.Run(body, func(t *testing.T) {
			f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc g() { "+body+" }", 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := startsGoroutines(f); got != want {
				t.Errorf("%q starts goroutines: %v", body, got)
			}
		})
	}
	t.Chdir("../..")
	for name, want := range map[string]bool{"internal/probe": true, "internal/result": false} {
		t.Run(name, func(t *testing.T) {
			if got, err := (testPackage{path: module + name}).raced(); err != nil || got != want {
				t.Errorf("%s is raced: %v, %v", name, got, err)
			}
		})
	}
	if _, err := (testPackage{path: module + "internal/absent"}).raced(); err == nil {
		t.Error("a package without files is no error")
	}
}
