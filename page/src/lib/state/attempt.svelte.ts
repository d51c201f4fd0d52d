// Something that a click sends to the server: one at a time, and with the reason if it was refused.
import { problemFrom } from '../api/client';
import type { Problem } from '../api/types';

export class Attempt {
  busy = $state(false);
  problem = $state.raw<Problem | null>(null);

  /** Does nothing while another one is under way. */
  async run(send: () => Promise<unknown>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.problem = null;
    try {
      await send();
    } catch (error) {
      this.problem = problemFrom(error);
    } finally {
      this.busy = false;
    }
  }
}
