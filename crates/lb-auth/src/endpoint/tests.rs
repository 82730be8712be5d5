mod attacks;
mod flow;
