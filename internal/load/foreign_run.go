//go:build linux

package load

import "context"

// RunForeign waits for the server and fills it as Run does, and lets another program make the requests. The report has what the
// server says of itself, as of Run, and the digest of one right answer.
func RunForeign(ctx context.Context, o Options, requests func(context.Context) error) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	c := &course{o: &o, r: new(Report)}
	if o.Protocol != nil {
		d, err := o.Protocol.Open(o.Ask)
		if err != nil {
			return nil, err
		}
		if _, err := o.fill(ctx, d); err != nil {
			return nil, err
		}
		if err := o.ready(ctx, d); err != nil {
			return nil, err
		}
		c.r.Protocol, c.r.Digest = o.Protocol.Name, d.Digest()
	}
	for _, step := range []func(context.Context) error{
		c.askLate,
		func(ctx context.Context) error { return c.pause(ctx, true) },
		requests,
		func(ctx context.Context) error { return c.pause(ctx, false) },
		c.askLate,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return c.r, nil
}
