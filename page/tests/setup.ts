// What the sources read of a browser when they are loaded; nothing is drawn here.
Object.assign(globalThis, { document: { baseURI: 'http://127.0.0.1:8000/', title: 'DPXPlain' } });
