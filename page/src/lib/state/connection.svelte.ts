// Whether the server answers; while it does not, ask its health again, ever less often.

const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 10_000;

class Connection {
  gone = $state(false);
  /** Counts returns of the server, so that panels can load again what they missed. */
  returns = $state(0);
  #pause = FIRST_PAUSE;
  #timer: ReturnType<typeof setTimeout> | undefined;

  lost(): void {
    if (this.gone) return;
    this.gone = true;
    this.#pause = FIRST_PAUSE;
    this.#schedule();
  }

  restore(): void {
    if (!this.gone) return;
    clearTimeout(this.#timer);
    this.gone = false;
    this.returns += 1;
  }

  /** Ask at once, for people who do not want to wait. */
  async ask(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      const response = await fetch(new URL('api/v1/health', document.baseURI));
      if (response.ok) {
        this.restore();
        return;
      }
    } catch {
      // Still gone.
    }
    this.#pause = Math.min(LONGEST_PAUSE, this.#pause * 1.6);
    this.#schedule();
  }

  #schedule(): void {
    this.#timer = setTimeout(() => void this.ask(), this.#pause);
  }
}

export const connection = new Connection();
