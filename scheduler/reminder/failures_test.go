package reminder

import (
	"testing"
	"testing/synctest"
)

// However many deliveries fail while one is being finished, one goroutine finishes them all, in
// their order.
func TestOneGoroutineFinishesWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		var deliveries [n]delivery
		begun, goOn := []*delivery{}, make(chan struct{})
		fs := &failures{finish: func(d *delivery, _ error, _ bool) {
			begun = append(begun, d)
			<-goOn
		}}
		for i := range deliveries {
			fs.add(failure{delivery: &deliveries[i]})
		}
		synctest.Wait()
		if len(begun) != 1 {
			t.Errorf("%d are being finished at the same time, want 1", len(begun))
		}
		close(goOn)
		synctest.Wait()
		for i, d := range begun {
			if d != &deliveries[i] {
				t.Fatalf("the delivery that was finished as number %d had another place", i)
			}
		}
		if len(begun) != n {
			t.Errorf("%d of %d were finished", len(begun), n)
		}
	})
}
