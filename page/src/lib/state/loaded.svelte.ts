// Something read from the server, with what can happen on the way; the old value stays while it is read again.
import { untrack } from 'svelte';
import { problemFrom } from '../api/client';
import type { Problem } from '../api/types';
import { connection } from './connection.svelte';

export class Loaded<T> {
  value = $state.raw<T | null>(null);
  problem = $state.raw<Problem | null>(null);
  #read: () => Promise<T>;
  #latest = 0;

  constructor(read: () => Promise<T>) {
    this.#read = read;
  }

  /** Reads it; an answer that was overtaken by a later reading is dropped. */
  async load(): Promise<void> {
    const load = (this.#latest += 1);
    try {
      const value = await this.#read();
      if (load !== this.#latest) return;
      this.value = value;
      this.problem = null;
    } catch (error) {
      if (load === this.#latest) this.problem = problemFrom(error);
    }
  }

  /** While a component lives: read now, again when the server came back, and anew for another subject. */
  follow(subject: () => string | null = () => ''): void {
    let loadedSubject: string | null = null;
    $effect(() => {
      void connection.returns;
      const about = subject();
      untrack(() => {
        if (about !== loadedSubject) this.#clear();
        loadedSubject = about;
        if (about !== null) void this.load();
      });
    });
  }

  #clear(): void {
    this.#latest += 1;
    this.value = this.problem = null;
  }
}
