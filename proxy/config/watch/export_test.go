package watch

// OnLook sets a function that is called after each rescan that follows an event.
func (w *Watcher) OnLook(f func(changed bool)) {
	w.mu.Lock()
	w.rescanned = f
	w.mu.Unlock()
}

// Blind makes every further attempt to watch a folder fail.
func (w *Watcher) Blind() error { return w.notify.Close() }

// Folders returns the folders that are watched.
func (w *Watcher) Folders() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir := range w.folders {
		names = append(names, dir)
	}
	return names
}
