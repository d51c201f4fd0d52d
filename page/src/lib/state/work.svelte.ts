// Work that the server does while the page waits: followed to its end, with its progress and a way to stop it.
import { api } from '../api';
import { problemFrom } from '../api/client';
import type { Job, Problem } from '../api/types';
import { workspace } from './workspace.svelte';

export class Work {
  job = $state.raw<Pick<Job<unknown>, 'id' | 'stage' | 'stopping'> | null>(null);
  running = $state(false);
  /** Whether somebody asked for it to be stopped; the server may take a moment. */
  stopping = $state(false);
  /** How the last work ended, if not well; a new price does not make that undone. */
  failure = $state.raw<Problem | null>(null);
  #latest = 0;

  /** Another question was asked: whatever goes on is of no interest any more. */
  drop(): void {
    this.#latest += 1;
    this.job = this.failure = null;
    this.running = false;
  }

  async cancel(): Promise<void> {
    if (!this.job) return;
    this.stopping = true;
    try {
      await api.cancel(this.job.id);
    } catch {
      this.stopping = false; // it can be tried again
    }
  }

  /** The result of a job; null if it failed, was stopped, or was dropped meanwhile. */
  async follow<R>(begin: () => Promise<Job<R>>): Promise<R | null> {
    const latest = (this.#latest += 1);
    this.running = true;
    this.stopping = false;
    this.failure = null;
    try {
      let job = await begin();
      while (job.state === 'queued' || job.state === 'running') {
        if (latest !== this.#latest) return null;
        this.job = job;
        workspace.report(job.stage);
        job = await api.job<R>(job.id);
      }
      if (latest !== this.#latest) return null;
      if (job.state === 'done') return job.result;
      this.failure = job.error;
      await workspace.refreshFailures();
      return null;
    } catch (error) {
      if (latest === this.#latest) this.failure = problemFrom(error);
      return null;
    } finally {
      if (latest === this.#latest) {
        this.running = false;
        this.job = null;
      }
    }
  }
}
