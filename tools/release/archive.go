package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// entry is a file of an archive.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// writeTar writes a compressed tar archive in which every file has the release's time and no owner.
func (o options) writeTar(w io.Writer, entries []entry) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := o.writePlainTar(packed, entries); err != nil {
		return err
	}
	return packed.Close()
}

// writePlainTar is writeTar without compression.
func (o options) writePlainTar(w io.Writer, entries []entry) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: o.created, Format: tar.FormatUSTAR})
		if err == nil {
			_, err = archive.Write(e.content)
		}
		if err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeZip is writeTar for Windows.
func (o options) writeZip(w io.Writer, entries []entry) error {
	archive := zip.NewWriter(w)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: o.created}
		header.SetMode(os.FileMode(e.mode))
		f, err := archive.CreateHeader(header)
		if err == nil {
			_, err = f.Write(e.content)
		}
		if err != nil {
			return err
		}
	}
	return archive.Close()
}

// clientName is the archive of a client, by its system and architecture.
func clientName(of build) string {
	system, arch, _ := strings.Cut(of.arch, "/")
	name := "teescope-" + system + "-" + arch
	if system == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// agentName is the archive of the agent alone.
func agentName(arch string) string { return "teescope-agent-linux-" + arch + ".tar.gz" }

// clientProgram is the file of a client's program.
func clientProgram(of build) string {
	if strings.HasPrefix(of.arch, "windows/") {
		return "teescope.exe"
	}
	return "teescope"
}

// packClients writes the archives of clients and of the agents alone: a folder with the program, the completions of those that have
// them, and the licenses.
func (o options) packClients(pages []item) error {
	all, err := o.items(pages)
	if err != nil {
		return err
	}
	contents := func(program string, completions bool) ([]entry, error) {
		content, err := os.ReadFile(program)
		entries := []entry{{"teescope/" + filepath.Base(program), 0o755, content}}
		for _, it := range all {
			if name := it.inTarball; strings.HasPrefix(name, "LICENSE") || completions && strings.HasPrefix(name, "completions/") {
				entries = append(entries, entry{"teescope/" + name, 0o644, it.text})
			}
		}
		return entries, err
	}
	for _, b := range o.builds {
		entries, err := contents(o.path(filepath.Join(b.dir, "bin", "teescope-agent")), false)
		if err == nil {
			err = writeFile(o.path(filepath.Join(o.out, agentName(b.arch))), func(w io.Writer) error { return o.writeTar(w, entries) })
		}
		if err != nil {
			return fmt.Errorf("%s: %w", agentName(b.arch), err)
		}
	}
	var errs []error
	for _, c := range o.clients {
		entries, err := contents(o.path(filepath.Join(c.dir, clientProgram(c))), true)
		write := func(w io.Writer) error { return o.writeTar(w, entries) }
		if strings.HasSuffix(clientName(c), ".zip") {
			write = func(w io.Writer) error { return o.writeZip(w, entries) }
		}
		if err == nil {
			err = writeFile(o.path(filepath.Join(o.out, clientName(c))), write)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", clientName(c), err))
		}
	}
	return errors.Join(errs...)
}
