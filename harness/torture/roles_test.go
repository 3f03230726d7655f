package torture

// role is what the test binary plays, nil if it tests.
func role() func() { return nil }
