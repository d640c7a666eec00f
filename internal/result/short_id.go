package result

// ShortID is the first twelve characters of a hash or an id.
func ShortID(id string) string { return id[:min(12, len(id))] }
