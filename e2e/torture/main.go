// Torture makes the storage of a monitor fail in many ways, and looks whether anything is lost without a word. `make torture` runs all
// parts and writes docs/reliability.md.
//
//	seam   each of the program's own calls to the file system fails, once or from then on, while a store is opened, written, queried and closed
//	calls  a system call of a process that records fails, those of the embedded database included (strace)
//	kill   a process that records is killed (-9), again and again
//	full   the disk of a process that records is filled, and freed again
//	bits   a bit of a file is turned, or the file is cut, zeroed or extended: log, head chunks, blocks, history of findings, results
//
// Each part can run alone, stops after its number of cases or its time, and goes on where it stopped: -state is a folder with what was done.
// What is random follows from -seed, which is printed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// part is one way to fail.
type part struct {
	name string
	// cases is how many `make torture` tries.
	cases int
	doc   string
	// begin prepares so many cases, and returns what tries one. Its number counts from 1; rnd follows from the seed and that number.
	begin func(ctx context.Context, dir string, cases int) (try func(number int, rnd *rand.Rand) (outcome, error), err error)
}

// outcome is how a case ended that is no failure.
type outcome struct {
	// What was done: "EIO at fsync".
	What string `json:"what"`
	// Lost is what was lost and said to be; "" nothing.
	Lost string `json:"lost,omitempty"`
	// Ended: the database ended the process, as it does if it cannot write a chunk of the head.
	Ended bool `json:"ended,omitempty"`
}

// state is what a part has done, on disk.
type state struct {
	Seed     uint64        `json:"seed"`
	Done     int           `json:"done"`
	Said     int           `json:"said"`  // cases that lost something, and said so
	Ended    int           `json:"ended"` // cases in which the database ended the process, and nothing was lost unsaid
	Failures []string      `json:"failures,omitempty"`
	Took     time.Duration `json:"took"`
	At       time.Time     `json:"at"`
}

var parts = []part{seam, calls, kills, fullDisks, bits}

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 && os.Args[1] == "ingest" {
		os.Exit(ingest(os.Args[2:]))
	}
	names := flag.String("parts", "seam,calls,kill,full,bits", "parts to run")
	seed := flag.Uint64("seed", 0, "of all that is random; 0 is a new one")
	cases := flag.Int("cases", 0, "cases of each part; 0 is its own number")
	within := flag.Duration("within", 40*time.Minute, "longest time of a part")
	dir := flag.String("state", "bin/torture", "folder of what was done; a part with one goes on")
	table := flag.String("table", "", "write the table to this file")
	flag.Parse()
	failed := 0
	for name := range strings.SplitSeq(*names, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			log.Fatalf("-parts %q: want some of seam, calls, kill, full and bits, with commas between", *names)
		}
		p := parts[i]
		if *cases > 0 {
			p.cases = *cases
		}
		st, err := p.run(context.Background(), *dir, *seed, *within)
		if err != nil {
			log.Fatalf("%s: %v", p.name, err)
		}
		failed += len(st.Failures)
	}
	if *table != "" {
		if err := writeTable(*table, *dir); err != nil {
			log.Fatal(err)
		}
	}
	if failed > 0 {
		log.Fatalf("%d cases failed", failed)
	}
}

// run tries the cases that are left of a part.
func (p *part) run(ctx context.Context, dir string, seed uint64, within time.Duration) (*state, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, p.name+".json")
	st, err := load(file)
	if err != nil {
		return nil, err
	}
	if seed != 0 && st.Seed != seed {
		st = &state{Seed: seed}
	}
	work, err := os.MkdirTemp("", "torture-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	try, err := p.begin(ctx, work, p.cases)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%s: seed %d, %d of %d cases are done\n", p.name, st.Seed, st.Done, p.cases)
	for begun := time.Now(); st.Done < p.cases && time.Since(begun) < within; {
		if err := st.tryNext(p.name, dir, try); err != nil {
			return nil, err
		}
		if err := st.store(file); err != nil {
			return nil, err
		}
	}
	fmt.Printf("%s: %d cases, %d lost something and said so, %d failures\n", p.name, st.Done, st.Said, len(st.Failures))
	return st, nil
}

// tryNext tries the next case. What a process said that crashed goes to a file in the folder of what was done.
func (st *state) tryNext(name, dir string, try func(int, *rand.Rand) (outcome, error)) error {
	begun := time.Now()
	number := st.Done + 1
	o, err := try(number, rand.New(rand.NewPCG(st.Seed, uint64(number))))
	st.Done, st.At = number, time.Now().UTC().Truncate(time.Second)
	st.Took += time.Since(begun)
	if err != nil {
		st.Failures = append(st.Failures, fmt.Sprintf("case %d (%s): %v", number, o.What, err))
		fmt.Printf("%s: case %d: %s: FAILED: %v\n", name, number, o.What, err)
	} else if o.Lost != "" {
		st.Said++
	}
	if o.Ended && err == nil {
		st.Ended++
	}
	if c := new(crash); errors.As(err, &c) {
		return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.txt", name, number)), []byte(c.said), 0o644)
	}
	return nil
}

func load(file string) (*state, error) {
	st := &state{Seed: rand.Uint64()}
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return st, nil
	}
	if err == nil {
		err = json.Unmarshal(b, st)
	}
	return st, err
}

func (st *state) store(file string) error {
	b, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}
