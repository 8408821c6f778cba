// vis-network is an AMD module, and this is all it needs of a loader. It would create the global `regeneratorRuntime`
// by evaluating a string, which the page's policy forbids.
const vis = (() => {
const require = { defined: () => false };
const library = {};
let regeneratorRuntime;
const define = (name, needs, build) => build(library);
{{script}}
return library;
})();
