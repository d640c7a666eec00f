//go:build ignore

// Pack writes files.tar.gz from the experiments, the sources and the claims.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"log"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	var files []string
	for _, pattern := range []string{"*.yaml", "sources/*.yaml", "claims/*.csv"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			log.Fatal(err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		log.Fatal(err)
	}
	t := tar.NewWriter(z)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err == nil {
			err = t.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(b))})
		}
		if err == nil {
			_, err = t.Write(b)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := t.Close(); err != nil {
		log.Fatal(err)
	}
	if err := z.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("files.tar.gz", out.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
