package edge

import (
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/failure"
)

// Role is what a caller may do. Each one includes those before it.
type Role uint8

const (
	// RoleRead looks: it runs read-only methods, and reads states, lists, logs and
	// metrics.
	RoleRead Role = iota + 1
	// RoleInvoke runs all methods.
	RoleInvoke
	// RoleDeploy uploads, deploys, rolls back, undeploys and deletes modules, deletes
	// actors, and sees the settings of an app.
	RoleDeploy
	// RoleAdmin gives apps configuration, secrets and hosts to send requests to.
	RoleAdmin
)

var roleNames = map[Role]string{RoleRead: "read", RoleInvoke: "invoke", RoleDeploy: "deploy", RoleAdmin: "admin"}

// String returns the role's name.
func (r Role) String() string {
	if name, ok := roleNames[r]; ok {
		return name
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// ParseRole returns the role of a name.
func ParseRole(name string) (Role, error) {
	for r, n := range roleNames {
		if n == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%q is no role; give read, invoke, deploy or admin", name)
}

// Token lets callers in.
type Token struct {
	// Name says in the log whose requests are whose: as long as an app's name, and
	// of the same characters. Required.
	Name string
	// Secret is what callers send as "Authorization: Bearer SECRET": visible ASCII
	// characters. Required.
	Secret string
	// Role is what they may do. Required.
	Role Role
	// App is the only app that they may do it in. Empty: in all, and with the
	// server as a whole.
	App string
}

// minTokenLen is how many characters a token has that nobody guesses.
const minTokenLen = 16

// primaryToken is the name of [Config.Token].
const primaryToken = "token"

// validateTokens checks all tokens; primary is the secret of [Config.Token].
func validateTokens(primary string, all []Token) error {
	if at := invisible(primary); at >= 0 {
		return fmt.Errorf("server: Config.Token has the byte %#02x at %d; use visible ASCII characters only", primary[at], at)
	}
	names, secrets := make(map[string]bool), make(map[string]string)
	for _, t := range all {
		if err := actor.ValidateName("name", t.Name); err != nil {
			return fmt.Errorf("server: Config.Tokens: %w", err)
		}
		other, twice := secrets[t.Secret]
		switch {
		case names[t.Name]:
			return fmt.Errorf("server: Config.Tokens has two of the name %s; give each a name of its own", t.Name)
		case t.Secret == "":
			return fmt.Errorf("server: Config.Tokens: %s has no secret; give what its callers are to send", t.Name)
		case invisible(t.Secret) >= 0:
			return fmt.Errorf("server: Config.Tokens: the secret of %s has a byte that is no visible ASCII character; use those only", t.Name)
		case twice:
			return fmt.Errorf("server: Config.Tokens: %s and %s have the same secret; give each its own", other, t.Name)
		case roleNames[t.Role] == "":
			return fmt.Errorf("server: Config.Tokens: %s has no role; give it one", t.Name)
		}
		if t.App != "" {
			if err := actor.ValidateName("app", t.App); err != nil {
				return fmt.Errorf("server: Config.Tokens: %s: %w", t.Name, err)
			}
		}
		names[t.Name], secrets[t.Secret] = true, t.Name
	}
	return nil
}

// invisible returns where s has a byte that a header cannot carry; -1 if nowhere.
func invisible(s string) int {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return i
		}
	}
	return -1
}

// Caller is who a request is from: what decides what it may do.
type Caller struct {
	Name string // of the token; empty if none is asked for
	role Role
	app  string // the only one that it may speak of; empty: all
}

// Role returns what the caller may do.
func (c Caller) Role() Role { return c.role }

// App returns the only app that the caller may speak of; empty: all.
func (c Caller) App() string { return c.app }

// anyone is the caller of a server that asks for no token.
var anyone = Caller{role: RoleAdmin}

// Require refuses what needs a higher role.
func (c Caller) Require(role Role) error {
	if role == 0 { // a route that nobody thought of
		role = RoleAdmin
	}
	if c.role < role {
		return &failure.Error{Kind: failure.KindPermissionDenied, Text: fmt.Sprintf("the token %s has the role %s, and this needs %s; use another token", c.Name, c.role, role)}
	}
	return nil
}

// RequireApp refuses what belongs to another app.
func (c Caller) RequireApp(app string) error {
	if c.app != "" && c.app != app {
		return &failure.Error{Kind: failure.KindPermissionDenied, Text: fmt.Sprintf("the token %s is for the app %s, and this is of the app %s; name the app, or use another token", c.Name, c.app, app)}
	}
	return nil
}

// RequireEverywhere refuses what is of no app to callers of one.
func (c Caller) RequireEverywhere() error {
	if c.app != "" {
		return &failure.Error{Kind: failure.KindPermissionDenied, Text: fmt.Sprintf("the token %s is for the app %s, and this is of the whole server; use another token", c.Name, c.app)}
	}
	return nil
}
