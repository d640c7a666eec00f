package bench

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// Check says what is missing on this machine, and which arms can never run the job.
func (p *Plan) Check(h *host.Host) error {
	lacking := map[string][]string{} // the environments, by missing thing
	for _, x := range p.Lacking(h) {
		lacking[x.Why] = append(lacking[x.Why], x.Env)
	}
	var errs []error
	for _, why := range slices.Sorted(maps.Keys(lacking)) {
		if len(lacking[why]) == len(p.Arms) {
			errs = append(errs, errors.New(why))
			continue
		}
		errs = append(errs, fmt.Errorf("environment %s: %s", strings.Join(lacking[why], ", "), why))
	}
	return errors.Join(errs...)
}

// DropLacking leaves out the arms that cannot run here, and returns them. One arm is enough: its result can
// be joined with those of other machines. Like Check, it fails if that leaves none.
func (p *Plan) DropLacking(h *host.Host) ([]result.LeftOut, error) {
	lacking := p.Lacking(h)
	if len(lacking) == len(p.Arms) {
		return nil, p.Check(h)
	}
	without := func(a Arm) bool {
		return slices.ContainsFunc(lacking, func(x result.LeftOut) bool { return x.Env == a.Label })
	}
	p.Arms = slices.DeleteFunc(p.Arms, without)
	p.Ceilings = slices.DeleteFunc(p.Ceilings, func(c result.Ceiling) bool { return without(Arm{Label: c.Env}) })
	p.LeftOut = lacking
	return lacking, nil
}

// Lacking returns the arms that cannot run here, each with the reason.
func (p *Plan) Lacking(h *host.Host) (out []result.LeftOut) {
	for i := range p.Arms {
		a := &p.Arms[i]
		err := p.Refused(a)
		if err == nil {
			err = a.Launcher.Check(h, a.Params)
		}
		if err == nil {
			err = p.checkNeeds(h, a)
		}
		if err != nil {
			out = append(out, result.LeftOut{Env: a.Label, Why: err.Error()})
		}
	}
	return out
}

// Refused says why an arm can never run one of the cases, or is nil.
func (p *Plan) Refused(a *Arm) error {
	for i := range p.Cases {
		job, err := p.Workload.Job(p.params(&p.Cases[i], a))
		if err == nil {
			err = job.passable()
		}
		switch {
		case err != nil:
			return err
		case job.Boots && (a.Launcher.Boots == nil || !a.Launcher.Boots(a.Params)):
			return fmt.Errorf("workload %s measures the boot of a machine, but this environment does not boot a machine for each run; use the launcher qemu with fresh=true", p.Workload.Name)
		case job.Monitor && !a.Launcher.Monitor:
			return fmt.Errorf("workload %s measures the cost of a virtual machine to its host, but this environment is not a virtual machine; use the launcher qemu", p.Workload.Name)
		case a.Launcher.Refuses != nil:
			if err := a.Launcher.Refuses(a.Params, job); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNeeds says which tools and files an arm's jobs need and this machine lacks.
func (p *Plan) checkNeeds(h *host.Host, a *Arm) error {
	inside := a.Launcher.Elsewhere == nil || !a.Launcher.Elsewhere(a.Params)
	var lacks []string
	lack := func(text string) {
		if !slices.Contains(lacks, text) {
			lacks = append(lacks, text)
		}
	}
	said := false // how to get the files, once
	for i := range p.Cases {
		params := p.params(&p.Cases[i], a)
		for _, t := range p.Workload.Tools {
			if uses := inside && !t.Load || t.Load && !p.LoadElsewhere && a.ownLoad() == ""; uses && t.neededFor(params) {
				if what := t.lack(h, params); what != "" {
					lack(fmt.Sprintf("workload %s needs %s", p.Workload.Name, what))
				}
			}
		}
		job, err := p.Workload.Job(params)
		if err != nil {
			return err
		}
		for _, f := range job.Files {
			general := f.Hint == "" && p.Install != ""
			if general {
				f.Hint = p.Install
			}
			if err := f.checkReadable(h); err != nil && !(general && said) {
				lack(err.Error())
				said = said || general
			}
		}
	}
	if lacks == nil {
		return nil
	}
	return errors.New(strings.Join(lacks, "; "))
}
