package thinking

// Put stores details for calls, given by ID and name, as Recorder does.
func (m *Memory) Put(client, provider, details string, calls ...[2]string) {
	t := &thought{provider: provider, details: []byte(details)}
	for _, c := range calls {
		t.calls = append(t.calls, callKey(client, []byte(c[0]), []byte(c[1])))
	}
	m.put(client, t)
}

// Get returns the details for a call.
func (m *Memory) Get(client, id, name string) string {
	return m.GetByText(client, id, name, "")
}

// GetByText is Get for a client that returns the text of the reasoning.
func (m *Memory) GetByText(client, id, name, reasoning string) string {
	t := m.get(callKey(client, []byte(id), []byte(name)), func(string) bool { return true }, []byte(reasoning))
	if t == nil {
		return ""
	}
	return string(t.details)
}

// Clients returns the number of clients that have entries in the memory.
func (m *Memory) Clients() int { return m.cache.Clients() }

// AppendToken exposes appendToken.
func AppendToken(details string) string { return string(appendToken(nil, []byte(details))) }
