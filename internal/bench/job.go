package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/result"
)

// identify makes the identity of a case: workload, version, parameters except subjects,
// and the data. Programs are subjects, not part of the job.
func identify(h *host.Host, p *Plan, c *Case) (result.Case, error) {
	out := result.Case{ID: c.ID, Params: c.Params}
	for i := range p.Arms {
		j, err := p.Workload.Job(p.params(c, &p.Arms[i]))
		if err != nil {
			return out, fmt.Errorf("environment %s: %w", p.Arms[i].Label, err)
		}
		digest, err := dataDigest(h, j)
		if err != nil {
			return out, err
		}
		if i > 0 && digest != out.DataDigest {
			return out, fmt.Errorf("case %s: the data of %s differ from the data of %s, so the jobs are not the same", c.ID, p.Arms[i].Label, p.Arms[0].Label)
		}
		out.DataDigest = digest
	}
	var err error
	out.Identity, err = identity(p.Workload, c.Params, out.DataDigest)
	return out, err
}

// identity is the hash of a job: workload, version, parameters except subjects, data. The parameters are without their secrets, as
// results record them. So the identities of a result can be computed from it alone, and nobody can test guesses of a secret against one.
func identity(w *Workload, params Params, data string) (string, error) {
	job := maps.Clone(params)
	for name, value := range job {
		job[name] = printable.Named(name, value)
	}
	for _, d := range w.Params {
		if d.Subject {
			delete(job, d.Name)
		}
	}
	text, err := json.Marshal([]any{w.Name, w.Version, job, data}) // maps are sorted by key
	return sum(text), err
}

// Edited fails if the parameters or data of a result's case are not those of its identity: then results of different
// jobs would pass as the same. A workload of another version, or one that is not in the list, is not checked.
func (l Lists) Edited(e *result.Experiment) error {
	w, err := l.Workload(e.Workload.Name)
	if err != nil || w.Version != e.Workload.Version {
		return nil //nolint:nilerr // nothing to check against
	}
	for i := range e.Cases {
		c := &e.Cases[i]
		want, err := identity(w, c.Params, c.DataDigest)
		if err != nil {
			return err
		}
		if c.Identity != "" && c.Identity != want {
			return fmt.Errorf("case %s: the parameters and data do not match the case's identity. The file was changed after the benchmark; use the original file", c.ID)
		}
	}
	return nil
}

// dataDigest covers the files of a job that are not programs; "" without any.
func dataDigest(h *host.Host, j Job) (string, error) {
	var all []byte
	for _, f := range j.Files {
		if f.Exec {
			continue
		}
		b, err := f.Content(h)
		if err != nil {
			return "", err
		}
		all = append(all, f.Name+" "+sum(b)+"\n"...)
	}
	if all == nil {
		return "", nil
	}
	return sum(all), nil
}

// programs are the digests of the programs that a job brings along.
func programs(h *host.Host, j Job) (map[string]string, error) {
	out := map[string]string{}
	for _, f := range j.Files {
		if !f.Exec {
			continue
		}
		b, err := f.Content(h)
		if err != nil {
			return nil, err
		}
		out[f.Name] = sum(b)
	}
	return out, nil
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}
