// Whether the server can work; while it is silent or says that it cannot, ask it again, ever less often.

const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 10_000;

class Connection {
  gone = $state(false);
  /** What the server says while it answers but cannot work; empty while it is silent. */
  outage = $state('');
  /** Counts returns of the server, so that panels can load again what they missed. */
  returns = $state(0);
  #pause = FIRST_PAUSE;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** What a button says that needs the server. */
  labelled(text: string): string {
    return this.gone ? 'Waits for the server' : text;
  }

  lost(): void {
    if (!this.gone) this.#wait('', FIRST_PAUSE);
  }

  /** The server answers that it cannot work, and when to ask again. */
  suspend(message: string, seconds: number): void {
    if (this.outage !== message) this.#wait(message, seconds * 1_000);
  }

  /** An answer came: the server is back. During an outage some requests still succeed, so it ends by the probe alone. */
  answered(): void {
    if (!this.outage) this.restore();
  }

  restore(): void {
    if (!this.gone) return;
    clearTimeout(this.#timer);
    this.gone = false;
    this.outage = '';
    this.returns += 1;
  }

  /** Ask at once, for people who do not want to wait. */
  async ask(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      const response = await fetch(new URL(`api/v1/${this.outage ? 'ready' : 'health'}`, document.baseURI));
      if (response.ok) {
        this.restore();
        return;
      }
    } catch {
      this.outage = ''; // it is silent now
    }
    this.#pause = Math.max(this.#pause, Math.min(LONGEST_PAUSE, this.#pause * 1.6));
    this.#schedule();
  }

  #wait(outage: string, pause: number): void {
    clearTimeout(this.#timer);
    this.gone = true;
    this.outage = outage;
    this.#pause = pause;
    this.#schedule();
  }

  #schedule(): void {
    this.#timer = setTimeout(() => void this.ask(), this.#pause);
  }
}

export const connection = new Connection();
