// Command release makes the files of a release from programs that are built: for each architecture a tarball,
// packages for dpkg, rpm and apk and the agent alone, for other systems a client, and for all of them the chart, what
// package managers would publish, a statement of provenance, checksums and signatures. The same input gives the same
// bytes. `make release` builds the programs and the image, and calls it:
//
//	go -C tools/release run . -o bin/release -version v0.1.0 amd64=bin/image/amd64 darwin/arm64=bin/client/darwin/arm64
//
// Paths are relative to -root, the repository. It is a module of its own, because the program does not need what packs it.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the settings of one release.
type options struct {
	root, out, program, key string
	only                    []string // formats
	checkOnly               bool
	licenses                string // file for the licenses of others, to make nothing else
	version, revision       string
	created                 time.Time
	builds                  []build
	clients                 []build // of other systems
}

// build is the folder of the programs of an architecture, or of a system and an architecture as "darwin/arm64".
type build struct{ arch, dir string }

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case err != nil:
	case o.licenses != "":
		err = o.writeNotices()
	case o.checkOnly:
		err = o.checkKey()
	default:
		err = o.release(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(4)
	}
}

// versionForm is a release by https://semver.org, with a v. rpm has no name for anything else, and Alpine none for other pre-releases:
// https://wiki.alpinelinux.org/wiki/Package_policies.
var versionForm = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(alpha|beta|pre|rc)(\.?(0|[1-9]\d*))?)?$`)

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../..", "the repository")
	flags.StringVar(&o.out, "o", "bin/release", "folder for the files; what is in it belongs to the release too")
	flags.StringVar(&o.program, "program", "", "teescope for this machine, which prints its man pages and completions; empty: the one of this machine's architecture")
	flags.StringVar(&o.key, "key", os.Getenv("COSIGN_KEY"), "file with the key that signs the checksums: P-256 in PKCS#8, PEM, not encrypted; empty: none")
	flags.StringVar(&o.version, "version", "", "version of the programs, as v0.1.0")
	flags.StringVar(&o.revision, "revision", "", "commit that they were built from")
	flags.BoolVar(&o.checkOnly, "check", false, "only check the settings and read the key, before the programs are built")
	flags.StringVar(&o.licenses, "notices", "", "only write the licenses of others into this file, compressed")
	only := flags.String("only", "", "make only these formats, with commas between them, and nothing for all of them together")
	created := flags.String("created", cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), "time of all files, in seconds of Unix time")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.licenses != "" {
		return o, nil
	}
	if !versionForm.MatchString(o.version) {
		return o, fmt.Errorf("version %q: want one like v0.1.0 or v0.1.0-rc.1", o.version)
	}
	seconds, err := strconv.ParseInt(*created, 10, 64)
	if err != nil {
		return o, fmt.Errorf("time of the files: %q: want whole seconds of Unix time", *created)
	}
	o.created = time.Unix(seconds, 0).UTC()
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, format := range o.only {
		if !slices.Contains(formats, format) && format != "chart" {
			return o, fmt.Errorf("format %q: want some of %s, chart", format, strings.Join(formats, ", "))
		}
	}
	for _, arg := range flags.Args() {
		arch, dir, ok := strings.Cut(arg, "=")
		system, cpu, other := strings.Cut(arch, "/")
		if other && ok && (system == "darwin" || system == "windows") && architectures[cpu] != "" && dir != "" {
			o.clients = append(o.clients, build{arch, dir})
			continue
		}
		if !ok || architectures[arch] == "" || dir == "" {
			return o, fmt.Errorf("programs %q: want ARCHITECTURE=FOLDER, with amd64 or arm64, or with darwin/arm64 and the like for a client", arg)
		}
		o.builds = append(o.builds, build{arch, dir})
	}
	if len(o.builds) == 0 {
		return o, errors.New("no programs: name at least one ARCHITECTURE=FOLDER")
	}
	for _, b := range o.builds {
		if b.arch == runtime.GOARCH && o.program == "" {
			o.program = filepath.Join(b.dir, "bin", "teescope")
		}
	}
	if o.program == "" {
		return o, fmt.Errorf("no program runs on this machine (%s): name one with -program", runtime.GOARCH)
	}
	return o, nil
}

// path is a name in the repository.
func (o options) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(o.root, name)
}

// includes reports whether a format is to be made.
func (o options) includes(format string) bool {
	return len(o.only) == 0 || slices.Contains(o.only, format)
}

// release makes everything, and says what it made.
func (o options) release(w io.Writer) error {
	if err := os.MkdirAll(o.path(o.out), 0o755); err != nil {
		return err
	}
	if o.includes("chart") {
		if err := o.packChart(); err != nil {
			return fmt.Errorf("chart: %w", err)
		}
	}
	if !slices.ContainsFunc(formats, o.includes) {
		return nil
	}
	if len(o.only) == 0 {
		if err := errors.Join(o.checkKey(), o.checkCommit()); err != nil {
			return err
		}
	}
	pages, err := o.pages()
	if err != nil {
		return fmt.Errorf("man pages and completions: %w", err)
	}
	for _, b := range o.builds {
		if err := o.pack(b, pages); err != nil {
			return fmt.Errorf("packages for %s: %w", b.arch, err)
		}
	}
	if len(o.only) > 0 {
		return nil
	}
	return o.complete(w, pages)
}

// complete makes what a release has but for the packages, and signs it.
func (o options) complete(w io.Writer, pages []item) error {
	if err := o.packClients(pages); err != nil {
		return fmt.Errorf("agents and clients: %w", err)
	}
	if err := o.writePublished(); err != nil {
		return fmt.Errorf("formula and manifest: %w", err)
	}
	if err := o.writeProvenance(); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	sums, err := o.writeChecksums()
	if err != nil {
		return fmt.Errorf("checksums: %w", err)
	}
	if _, err := w.Write(sums); err != nil {
		return err
	}
	if !o.tagged() {
		fmt.Fprintf(w, "The provenance names the commit and no tag, because no tag %s is at that commit.\n", o.version)
	}
	if o.key == "" {
		fmt.Fprintln(w, "Nothing was signed: name a key with COSIGN_KEY=FILE (P-256 in PKCS#8, PEM, not encrypted).")
		return nil
	}
	if err := o.sign(sums); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s is signed with %s: %s, the provenance too: %s, and the public key is in %s.\n", checksumsName, o.key, signatureName, envelopeName, publicName)
	return nil
}
