// Questions that somebody named and pinned. Kept in this browser only: the server knows nothing of a board.
import { workspace } from './workspace.svelte';

export interface Pin {
  /** The address that opens it again, for nothing. */
  address: string;
  answer: number | string;
  name: string;
  comment: string;
  /** What it is called by itself. */
  title: string;
  /** Of an explanation: what it said, released like any answer. */
  findings: string[];
  confidence: number;
  time: string;
}

const MOST = 100;
const KEY = 'dpxplain.board';

class Board {
  /** What was kept since the page was loaded, by whose and which board it is. */
  #kept = $state.raw<Record<string, Pin[]>>({});

  /** Those of the person and data set that are shown; the newest first. */
  get pins(): Pin[] {
    const key = storageKey();
    return this.#kept[key] ?? stored(key);
  }

  has(address: string): boolean {
    return this.pins.some((pin) => pin.address === address);
  }

  /** False where no more fit. */
  add(pin: Omit<Pin, 'comment' | 'time'>): boolean {
    if (this.pins.length >= MOST) return false;
    this.#keep([{ ...pin, comment: '', time: new Date().toISOString() }, ...this.pins]);
    return true;
  }

  change(address: string, change: Partial<Pick<Pin, 'name' | 'comment'>>): void {
    this.#keep(this.pins.map((pin) => (pin.address === address ? { ...pin, ...change } : pin)));
  }

  remove(address: string): void {
    this.#keep(this.pins.filter((pin) => pin.address !== address));
  }

  #keep(pins: Pin[]): void {
    this.#kept = { ...this.#kept, [storageKey()]: pins };
    try {
      localStorage.setItem(storageKey(), JSON.stringify(pins));
    } catch {
      // Without storage the board lasts as long as the page.
    }
  }
}

function stored(key: string): Pin[] {
  try {
    return (JSON.parse(localStorage.getItem(key) ?? '[]') as unknown[]).filter(isPin);
  } catch {
    return []; // what cannot be read is none
  }
}

const storageKey = () => [KEY, workspace.me?.name ?? '', workspace.dataset?.name ?? ''].join('/');

/** Whatever is stored, only addresses of this page are opened. */
function isPin(pin: unknown): pin is Pin {
  const { address, answer, name } = (pin ?? {}) as Pin;
  return (
    typeof address === 'string' &&
    address.startsWith('#/') &&
    /^\d+(@.+)?$/.test(String(answer)) &&
    typeof name === 'string'
  );
}

export const board = new Board();
