// Requests to the server, repeated while a page is open.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Code } from "@connectrpc/connect";
import { type Problem, problemOf } from "./api";

export interface Loaded<T> {
  data: T | undefined; // the last answer; kept while the server does not answer
  at: Date | undefined; // when data arrived
  problem: Problem | undefined; // of the last request
  loading: boolean;
  reload: () => void;
}

// Failures that are likely to pass: the request is repeated even if the page does not poll.
const passing = [Code.Unavailable, Code.DeadlineExceeded, Code.ResourceExhausted, Code.Aborted];
const retryAfter = 3_000;

// useLoad asks when deps change, and then at an interval in milliseconds (0: once) while the page is
// visible. A request for earlier deps is cancelled, and its answer is ignored.
export function useLoad<T>(ask: (signal: AbortSignal) => Promise<T>, deps: unknown[], every = 0): Loaded<T> {
  const key = JSON.stringify(deps);
  const [got, setGot] = useState<{ key: string; data?: T; at?: Date; problem?: Problem; loading: boolean }>({ key, loading: true });
  const latest = useRef(ask);
  latest.current = ask;
  const again = useRef<() => void>(() => {});
  useEffect(() => {
    let timer = 0;
    let abort = new AbortController();
    let ended = false;
    const run = async () => {
      clearTimeout(timer);
      abort.abort();
      const mine = (abort = new AbortController());
      setGot((g) => (g.key === key ? { ...g, loading: true } : { key, loading: true }));
      let next = every;
      try {
        const data = await latest.current(mine.signal);
        if (mine.signal.aborted) return;
        setGot({ key, data, at: new Date(), loading: false });
      } catch (e) {
        if (mine.signal.aborted) return;
        const problem = problemOf(e);
        setGot((g) => ({ ...(g.key === key ? g : { key }), problem, loading: false }));
        next = passing.includes(problem.code) ? retryAfter : every;
      }
      if (next && !ended) timer = window.setTimeout(tick, next);
    };
    const tick = () => {
      if (document.hidden) return; // seen continues
      void run();
    };
    const seen = () => {
      if (!document.hidden && every) void run();
    };
    again.current = () => void run();
    document.addEventListener("visibilitychange", seen);
    void run();
    return () => {
      ended = true;
      clearTimeout(timer);
      abort.abort();
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key, every]);
  const reload = useCallback(() => again.current(), []);
  const current = got.key === key ? got : { loading: true };
  return { data: undefined, at: undefined, problem: undefined, ...current, reload };
}

// useAction runs what a button does, one run at a time, and keeps the problem that the last run ended with.
export function useAction(): { busy: boolean; problem: Problem | undefined; run: (f: () => Promise<unknown>) => Promise<boolean>; clear: () => void } {
  const [state, setState] = useState<{ busy: boolean; problem?: Problem }>({ busy: false });
  const busy = useRef(false);
  const run = useCallback(async (f: () => Promise<unknown>) => {
    if (busy.current) return false;
    busy.current = true;
    setState({ busy: true });
    try {
      await f();
      setState({ busy: false });
      return true;
    } catch (e) {
      const problem = problemOf(e);
      setState(problem.code === Code.Canceled ? { busy: false } : { busy: false, problem });
      return false;
    } finally {
      busy.current = false;
    }
  }, []);
  const clear = useCallback(() => setState({ busy: false }), []);
  return { problem: undefined, ...state, run, clear };
}
