// A schema text that the server checks while somebody writes it.
import { problemFrom } from '../lib/api/client';
import type { Problem } from '../lib/api/types';
import { curatorApi, type SchemaChecked } from './api';

const PAUSE = 300;

export class Checking {
  /** What the server made of `text`; null where it refused the text. */
  schema = $state.raw<SchemaChecked | null>(null);
  problem = $state.raw<Problem | null>(null);
  text = $state<string | null>(null);

  /** While a component lives: each text, once nobody typed for a moment. */
  follow(text: () => string | null): void {
    $effect(() => {
      const toml = text();
      if (toml === null) return;
      const request = new AbortController();
      const timer = setTimeout(() => void this.#check(toml, request.signal), PAUSE);
      return () => {
        clearTimeout(timer);
        request.abort();
      };
    });
  }

  async #check(toml: string, signal: AbortSignal): Promise<void> {
    let schema: SchemaChecked | null = null;
    let problem: Problem | null = null;
    try {
      schema = await curatorApi.check(toml, signal);
    } catch (error) {
      problem = problemFrom(error);
    }
    if (!signal.aborted) [this.schema, this.problem, this.text] = [schema, problem, toml];
  }
}
