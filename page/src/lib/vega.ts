// Loaded only when a chart is shown. Expressions are interpreted, so that no eval is needed.
import { parse, View } from 'vega';
import embed, { type Result, type VisualizationSpec } from 'vega-embed';
import { expressionInterpreter } from 'vega-interpreter';
import { compile, type TopLevelSpec } from 'vega-lite';
import type { ChartSpec } from './api/types';

export type Drawn = Result;

export function draw(element: HTMLElement, spec: ChartSpec): Promise<Drawn> {
  return embed(element, spec as unknown as VisualizationSpec, {
    mode: 'vega-lite',
    renderer: 'svg',
    ast: true,
    expr: expressionInterpreter,
    actions: false,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true, id: 'chart-tip' },
  });
}

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
