package explain

// conversions are changes of a confidential guest's memory between private and shared.
var conversions = machineKind{
	reads: histogram(ConversionTime, "direction", ""),
	rows: func(l *Ledger) (out []Row) {
		if r, ok := l.timed("conversions", "conversions between private and shared memory", histogram(ConversionTime, "", ""), everything); ok {
			r.Cause = "memory_conversions"
			out = append(out, r)
		}
		return out
	},
}
