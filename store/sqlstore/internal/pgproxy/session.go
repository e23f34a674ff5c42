package pgproxy

import (
	"bufio"
	"fmt"
	"net"
	"sync"
)

// session is one connection of a client, and the one to the server behind it.
type session struct {
	proxy          *Proxy
	client, server net.Conn
	answers        *bufio.Reader // from the server
	status         byte          // of the last ReadyForQuery
	cancelKey      string        // what a request to cancel names the session by
}

func (p *Proxy) serve(client net.Conn) {
	if !p.hold(client) {
		return
	}
	defer p.drop(client)
	server, err := net.Dial("tcp", p.server)
	if err != nil || !p.hold(server) {
		return
	}
	defer p.drop(server)
	s := &session{proxy: p, client: client, server: server, answers: bufio.NewReader(server), status: 'I'}

	requests := bufio.NewReader(client)
	startup, err := readStartup(requests)
	if err != nil {
		return
	}
	if isCancel(startup) && p.isStranded(cancelKey(startup)) {
		return
	}
	if _, err := server.Write(startup); err != nil {
		return
	}
	if isCancel(startup) {
		_, _ = s.answers.ReadByte() // the server closes when it is done
		return
	}
	if s.answer(s.relay) != nil {
		return
	}

	// The client is read on its own, so that the server hears at once of one
	// that goes away while its statement runs.
	units := make(chan unit)
	gone := make(chan struct{})
	var reader sync.WaitGroup
	defer reader.Wait()
	defer client.Close()
	defer close(gone)
	reader.Go(func() {
		defer close(units)
		prepared := make(map[string]string)
		for {
			u, err := readUnit(requests, prepared)
			if err != nil {
				return
			}
			select {
			case units <- u:
			case <-gone:
				return
			}
		}
	})
	for u := range units {
		if s.handle(u, units) != nil {
			return
		}
	}
}

// answer passes messages of the server to each, up to where it waits for the
// client again.
func (s *session) answer(each func(message) error) error {
	for {
		m, err := readMessage(s.answers)
		if err != nil {
			return err
		}
		switch m.kind() {
		case 'Z':
			s.status = m[5]
		case 'K':
			s.cancelKey = string(m[5:])
		}
		if err := each(m); err != nil {
			return err
		}
		if m.kind() == 'Z' || m.asksClient() {
			return nil
		}
	}
}

func (s *session) relay(m message) error {
	_, err := s.client.Write(m)
	return err
}

// swallow counts rows and notices errors, and passes nothing on.
func (s *session) swallow(rows *int, failed *bool) func(message) error {
	return func(m message) error {
		switch m.kind() {
		case 'D':
			*rows++
		case 'E':
			*failed = true
		}
		return nil
	}
}

// handle takes a unit to the server, or has its fault happen to it. An error
// ends the session.
func (s *session) handle(u unit, rest <-chan unit) error {
	u.Transaction = s.status != 'I'
	if !u.answered {
		if _, err := s.server.Write(u.bytes); err != nil {
			return err
		}
		if !u.auth {
			return errCut // Terminate: the client waits for the end
		}
		return s.answer(s.relay)
	}
	planned := s.proxy.strike(u.Unit)
	if planned == nil {
		return s.pass(u)
	}
	f := planned.fault
	switch f.Do {
	case Hold:
		s.proxy.happened(planned)
		select {
		case <-planned.released:
			return s.pass(u)
		case <-rest: // the client gave up
			return errCut
		}
	case Strand:
		s.proxy.strand(s.cancelKey)
		_ = s.client.Close()
		s.proxy.happened(planned)
		<-planned.released
		return s.pass(u)
	case Vanish:
		s.proxy.strand(s.cancelKey)
		if _, err := s.server.Write(u.bytes[:f.Part(u.bytes)]); err != nil {
			return err
		}
		s.proxy.happened(planned)
		for {
			select {
			case <-planned.released:
				return errCut
			case _, more := <-rest:
				if !more { // the client gave up, and the server does not learn this
					rest = nil
				}
			}
		}
	case Lose:
		s.proxy.happened(planned)
		return errCut
	case LoseSync:
		return s.loseSync(u, planned)
	case Refuse:
		if err := s.refuse(u, f.Code); err != nil {
			return err
		}
		s.proxy.happened(planned)
		return s.answer(s.relay)
	case Terminate:
		s.proxy.happened(planned)
		_ = s.relay(errorMessage("FATAL", f.Code))
		return errCut
	}
	return s.handleDone(u, planned)
}

// handleDone is for the faults that strike once the server has done the unit.
func (s *session) handleDone(u unit, planned *Planned) error {
	if _, err := s.server.Write(u.bytes); err != nil {
		return err
	}
	var kept []message
	rows, failed := 0, false
	count := s.swallow(&rows, &failed)
	if err := s.answer(func(m message) error { kept = append(kept, m); return count(m) }); err != nil {
		return err
	}
	f := planned.fault
	if f.Do == DenyHeld && (failed || rows == 0 || rows < u.Rows) {
		for _, m := range kept {
			if err := s.relay(m); err != nil {
				return err
			}
		}
		return nil
	}
	s.proxy.happened(planned)
	switch f.Do {
	case TerminateDone:
		_ = s.relay(errorMessage("FATAL", f.Code))
		return errCut
	case Deny, DenyHeld:
		if err := s.relay(errorMessage("ERROR", f.Code)); err != nil {
			return err
		}
		return s.relay(readyMessage(s.status))
	}
	return errCut // LoseAnswer
}

func (s *session) pass(u unit) error {
	if _, err := s.server.Write(u.bytes); err != nil {
		return err
	}
	return s.answer(s.relay)
}

// loseSync sends all but the Sync, with a Flush in its place to hear that it
// was done.
func (s *session) loseSync(u unit, planned *Planned) error {
	if u.executions == 0 {
		return fmt.Errorf("a simple query has no Sync to lose: %s", u.SQL)
	}
	head := u.bytes[:len(u.bytes)-len(syncMessage)]
	if _, err := s.server.Write(append(head[:len(head):len(head)], flushMessage...)); err != nil {
		return err
	}
	for done := 0; done < u.executions; {
		m, err := readMessage(s.answers)
		if err != nil {
			return err
		}
		if m.kind() == 'C' {
			done++
		}
		if m.kind() == 'E' {
			break
		}
	}
	s.proxy.happened(planned)
	return errCut
}

// refuse has the server itself fail with the code, so that the server and the client agree
// about the outcome of the transaction. The server's answer is still to be read.
func (s *session) refuse(u unit, code string) error {
	if u.on(Commit) {
		// A COMMIT that fails has ended the transaction.
		if _, err := s.server.Write(queryMessage("ROLLBACK")); err != nil {
			return err
		}
		var rows int
		var failed bool
		if err := s.answer(s.swallow(&rows, &failed)); err != nil {
			return err
		}
	}
	_, err := s.server.Write(queryMessage("DO $$ BEGIN RAISE 'injected' USING ERRCODE = '" + code + "'; END $$"))
	return err
}
