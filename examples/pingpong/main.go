// Command pingpong is a guest with one actor type: players who hit a ball to each other, as fast
// as memory, and who learn when the other one's server is lost.
package main

import (
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Player is the state of a player.
type Player struct {
	// Hits is how often the player has hit a ball.
	Hits int `json:"hits"`
	// Against is the opponent of a game that is not over.
	Against string `json:"against,omitempty"`
	// Won and Lost count games. A player who cannot go on has lost.
	Won  int `json:"won"`
	Lost int `json:"lost"`
}

// Game is who plays, and how often the ball goes to and fro.
type Game struct {
	Against string `json:"against"`
	Rounds  int    `json:"rounds"`
}

// Ball is on its way to a player.
type Ball struct {
	// Left is how often it is still hit.
	Left int `json:"left"`
}

// Serve begins a game. The player watches the server of the opponent before it tells anything: a
// ball is delivered, or the player learns that the server was lost.
func (p *Player) Serve(ctx *actor.Context, game Game) (actor.None, error) {
	switch {
	case game.Against == "" || game.Against == ctx.ID():
		return actor.None{}, actor.Errorf("no_opponent", "a game has two players; name the other one")
	case game.Rounds < 1:
		return actor.None{}, actor.Errorf("no_rounds", "a game has one round or more, not %d", game.Rounds)
	case p.Against != "":
		return actor.None{}, actor.Errorf("playing", "the game against %s is not over", p.Against)
	}
	if err := actor.WatchHost(ctx, player(game.Against), "Gone"); err != nil {
		return actor.None{}, err
	}
	p.Against = game.Against
	return actor.None{}, p.hit(ctx, game.Against, 2*game.Rounds-1)
}

// Return hits the ball back to whoever has hit it. The last ball comes to the player who has
// served, who has won.
func (p *Player) Return(ctx *actor.Context, ball Ball) (actor.None, error) {
	from := ctx.Cause().From.ID
	if ball.Left > 0 {
		return actor.None{}, p.hit(ctx, from, ball.Left-1)
	}
	p.Won++
	return actor.None{}, p.over(ctx)
}

// hit tells an opponent the ball. If no turn of the opponent takes it, it comes back as Missed.
func (p *Player) hit(ctx *actor.Context, to string, left int) error {
	p.Hits++
	return actor.Tell(ctx, player(to), "Return", Ball{Left: left}, actor.OnUndelivered("Missed"))
}

// Missed gets a ball back that the opponent did not take.
func (p *Player) Missed(ctx *actor.Context, _ Ball) (actor.None, error) {
	p.Lost++
	return actor.None{}, p.over(ctx)
}

// Gone learns that the opponent's server was lost, or that this player has moved to another one:
// the ball may be lost, and the game is over.
func (p *Player) Gone(ctx *actor.Context, _ actor.None) (actor.None, error) {
	if p.Against == ctx.Cause().From.ID {
		p.Lost++
		p.Against = ""
	}
	return actor.None{}, nil
}

// over ends the player's own game, if any.
func (p *Player) over(ctx *actor.Context) error {
	against := p.Against
	if p.Against = ""; against == "" {
		return nil
	}
	_, err := actor.UnwatchHost(ctx, player(against))
	return err
}

// View reads the player.
func (p *Player) View(*actor.Context, actor.None) (Player, error) { return *p, nil }

func player(id string) actor.Ref { return actor.Ref{Type: "Player", ID: id} }

func init() {
	actor.Register("Player",
		actor.Method("Serve", (*Player).Serve),
		actor.Method("Return", (*Player).Return, actor.Private()),
		actor.Method("Missed", (*Player).Missed, actor.Private()),
		actor.Method("Gone", (*Player).Gone, actor.Private()),
		actor.ReadOnly("View", (*Player).View),
	)
}

func main() {}
