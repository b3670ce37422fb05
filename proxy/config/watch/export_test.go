package watch

// OnLook has f called after each time that the files were read because something had happened.
func (w *Watcher) OnLook(f func(changed bool)) {
	w.mu.Lock()
	w.looked = f
	w.mu.Unlock()
}

// Blind makes it impossible to watch anything more.
func (w *Watcher) Blind() error { return w.notify.Close() }

// Folders are those that are watched.
func (w *Watcher) Folders() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir := range w.folders {
		names = append(names, dir)
	}
	return names
}
