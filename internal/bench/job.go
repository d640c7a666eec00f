package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// identify makes the identity of a case: workload, version, parameters except subjects,
// and the data. Programs are subjects, not part of the job.
func identify(h *host.Host, p *Plan, c *Case) (result.Case, error) {
	out := result.Case{ID: c.ID, Params: c.Params}
	job := Params{}
	subject := map[string]bool{}
	for _, d := range p.Workload.Params {
		subject[d.Name] = d.Subject
	}
	for k, v := range c.Params {
		if !subject[k] {
			job[k] = v
		}
	}
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
			return out, fmt.Errorf("case %s: the data of %s differ from those of %s: not the same job", c.ID, p.Arms[i].Label, p.Arms[0].Label)
		}
		out.DataDigest = digest
	}
	text, err := json.Marshal([]any{p.Workload.Name, p.Workload.Version, job, out.DataDigest}) // maps are sorted by key
	if err != nil {
		return out, err
	}
	out.Identity = sum(text)
	return out, nil
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
