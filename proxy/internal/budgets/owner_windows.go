package budgets

// giveTo does nothing: files belong to the folder's owner here.
func giveTo(string, string) error { return nil }
