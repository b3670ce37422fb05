package budgets

// giveTo does nothing: on Windows, files belong to the folder's owner.
func giveTo(string, string) error { return nil }
