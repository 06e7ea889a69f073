// Copyright The otelcol-fpm Authors
// SPDX-License-Identifier: Apache-2.0

package tracefile

import (
	"errors"
	"sync"
	"time"

	"github.com/otelcol-fpm/otelcol-fpm/internal/fpm"
)

// errCanceled: whoever waits for the job has given up.
var errCanceled = errors.New("the push was canceled")

// job is the rows of one producer in one push (FIL-58).
type job struct {
	source   fpm.Source   // of its first row
	others   []fpm.Source // of rows that differ in it
	producer *producer
	rows     []*row // freed by the goroutine of the producer
	records  []int  // for each row, its record in the push
	done     chan struct{}

	mu       sync.Mutex
	settled  int // rows[:settled] are written or dropped for good
	canceled bool
	err      error
}

// add takes a row of record n of the push.
func (j *job) add(r *row, n int, source *fpm.Source) {
	j.rows = append(j.rows, r)
	j.records = append(j.records, n)
	if *source == j.source || len(j.others) > 0 && *source == j.others[len(j.others)-1] {
		return
	}
	j.others = append(j.others, *source)
}

// settle says that rows[:n] are done with; false if the push has been canceled, which takes back the last member.
func (j *job) settle(n int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.canceled {
		return false
	}
	j.settled = n
	return true
}

// cancel gives up what isn't settled. The goroutine of the producer may still be stuck with it.
func (j *job) cancel(cause error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.canceled && j.err == nil && j.settled < len(j.rows) {
		j.canceled, j.err = true, cause
	}
}

func (j *job) isCanceled() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.canceled
}

func (j *job) finish(err error) {
	j.mu.Lock()
	if !j.canceled {
		j.err = err
	}
	j.mu.Unlock()
	for _, r := range j.rows {
		freeRow(r)
	}
	close(j.done)
}

// outcome gives the records that are not written, and why.
func (j *job) outcome() (unwritten []int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.records[j.settled:], j.err
}

// submit hands j to the goroutine.
func (p *producer) submit(j *job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return errRefused
	}
	p.jobs = append(p.jobs, j)
	p.notify()
	return nil
}

func (p *producer) nextJob() *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.jobs) == 0 {
		return nil
	}
	j := p.jobs[0]
	p.jobs = p.jobs[1:]
	return j
}

// serveJobs writes pushes as they come, each at once.
func (p *producer) serveJobs() {
	defer p.close()
	for {
		stopping := p.w.stopped()
		j := p.nextJob()
		switch {
		case j != nil:
			p.serve(j)
			p.lastRow = time.Now()
		case stopping:
			return
		case time.Since(p.lastRow) >= p.w.limits.idleAfter:
			if p.retire() {
				p.w.health.clear(p.source)
				return
			}
		default:
			p.sleep(p.lastRow.Add(p.w.limits.idleAfter), p.wake)
		}
	}
}

// serve writes one push: one member, and one more wherever it crosses a roll.
func (p *producer) serve(j *job) {
	p.current.Store(j)
	err := p.w.gate.outcome()
	if err == nil {
		err = p.writeJob(j)
	}
	if err != nil {
		p.batch.reset()
		p.streams.rollback()
		p.failed(err)
	}
	p.current.Store(nil)
	j.finish(err)
}

func (p *producer) writeJob(j *job) error {
	if j.isCanceled() {
		return errCanceled
	}
	if err := p.open(); err != nil {
		return p.limitReached(j, err)
	}
	for i := 0; i < len(j.rows); {
		switch p.place(j.rows[i]) {
		case placed:
			i++
		case leftOut:
			p.batch.duplicates++
			i++
		case rollFirst:
			if err := p.commit(j, i); err != nil {
				return p.limitReached(j, err)
			}
			p.roll()
		}
	}
	return p.limitReached(j, p.commit(j, len(j.rows)))
}

// commit writes the batch, which ends before row n of the job.
func (p *producer) commit(j *job, n int) error {
	if p.batch.empty() {
		j.settle(n)
		p.committed(0)
		return nil
	}
	member := p.w.compressor.appendMember(takeBuffer(), p.batch.raw)
	defer giveBuffer(member)
	if err := p.series.append(member); err != nil {
		return err
	}
	if !j.settle(n) {
		p.series.undo(len(member))
		return errCanceled
	}
	p.committed(len(member))
	return nil
}

func (p *producer) committed(memberBytes int) {
	if memberBytes > 0 {
		p.wrote(memberBytes)
	}
	p.dropDuplicates(p.batch.duplicates)
	p.streams.commit()
	p.batch.reset()
}

// limitReached turns the end of all indexes into a drop: no retry could help (FIL-10). Other errors it returns as they are.
func (p *producer) limitReached(j *job, err error) error {
	if !errors.Is(err, errExhausted) {
		return err
	}
	unwritten, _ := j.outcome()
	if j.settle(len(j.rows)) {
		p.dropExhausted(len(unwritten))
	}
	p.batch.reset()
	p.streams.rollback()
	return nil
}
