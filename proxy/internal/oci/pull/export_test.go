package pull

// SetLimit replaces the limit of the folder's size, in bytes.
func SetLimit(p *Puller, limit int64) { p.blobs.limit = limit }
