mod attacks;
mod flow;
mod later;
