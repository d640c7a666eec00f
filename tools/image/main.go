// Command image writes an OCI archive of what a container file says, without a container engine or a registry. The same
// input gives the same bytes. It takes one folder, the build's context, for each architecture:
//
//	go run ./tools/image -o bin/teescope.oci.tar amd64=bin/image/amd64 arm64=bin/image/arm64
//
// With -sbom it also writes a list of what each image contains, in CycloneDX's format.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// options are the settings of one archive.
type options struct {
	out, file, name, sbom, lock string
	version, revision           string
	created                     time.Time
	contexts                    []context
}

// context is the folder of an architecture's files.
type context struct{ arch, dir string }

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = o.write()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(4)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.out, "o", "bin/teescope.oci.tar", "the archive")
	flags.StringVar(&o.file, "file", "deploy/Containerfile", "the container file")
	flags.StringVar(&o.name, "name", "docker.io/library/teescope:latest", "name of the image, in full")
	flags.StringVar(&o.sbom, "sbom", "", "folder for the lists of contents; empty: none")
	flags.StringVar(&o.lock, "lock", "ui/package-lock.json", "npm's lock file of the page that the programs contain")
	flags.StringVar(&o.version, "version", "", "version of the programs")
	flags.StringVar(&o.revision, "revision", "", "commit that they were built from")
	created := flags.String("created", cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), "time of the image and its files, in seconds of Unix time")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	seconds, err := strconv.ParseInt(*created, 10, 64)
	if err != nil {
		return o, fmt.Errorf("time of the image: %q: want whole seconds of Unix time", *created)
	}
	o.created = time.Unix(seconds, 0).UTC()
	for _, arg := range flags.Args() {
		arch, dir, ok := strings.Cut(arg, "=")
		if !ok || arch == "" || dir == "" {
			return o, fmt.Errorf("context %q: want ARCHITECTURE=FOLDER", arg)
		}
		o.contexts = append(o.contexts, context{arch, dir})
	}
	if len(o.contexts) == 0 {
		return o, errors.New("no context: name at least one ARCHITECTURE=FOLDER")
	}
	return o, nil
}

// write makes the archive and the lists. An archive that cannot be completed is removed.
func (o options) write() (err error) {
	text, err := os.ReadFile(o.file)
	if err != nil {
		return err
	}
	what, err := parseRecipe(string(text))
	if err != nil {
		return fmt.Errorf("read %s: %w", o.file, err)
	}
	f, err := os.Create(o.out)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(o.out)
		}
	}()
	a := newArchive(f, o.created)
	var images []descriptor
	for _, c := range o.contexts {
		image, err := o.image(a, what, c)
		if err != nil {
			return fmt.Errorf("image for %s: %w", c.arch, err)
		}
		images = append(images, image)
		if o.sbom == "" {
			continue
		}
		name := filepath.Join(o.sbom, fmt.Sprintf("teescope-%s.cdx.json", c.arch))
		list, err := o.bom(what, c)
		if err == nil {
			err = os.WriteFile(name, list, 0o644)
		}
		if err != nil {
			return fmt.Errorf("list the contents for %s: %w", c.arch, err)
		}
	}
	return a.finish(images, o.name)
}
