// Loaded only when a chart is saved as an image. Expressions are interpreted, so that no eval is needed.
import { parse, View } from 'vega';
import { expressionInterpreter } from 'vega-interpreter';
import { compile, type TopLevelSpec } from 'vega-lite';
import type { ChartSpec } from './api/types';

export async function toSvg(spec: ChartSpec): Promise<string> {
  return view(spec).toSVG();
}

export async function toPng(spec: ChartSpec): Promise<Blob> {
  const canvas = (await view(spec).toCanvas(2)) as unknown as HTMLCanvasElement;
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('The image could not be drawn.'))), 'image/png'),
  );
}

function view(spec: ChartSpec): View {
  const compiled = compile(spec as unknown as TopLevelSpec).spec;
  return new View(parse(compiled, undefined, { ast: true }), { expr: expressionInterpreter, renderer: 'none' });
}
